// Package access serves the API server, and no other client: an HTTPS server through which it
// reaches the guests of this node. It relays the serial console, the screen and ports of a guest, and reads what the
// guest's agent says. Who may do so is the API server's to decide; here it is only known by a certificate of its own
// role (package wire has the names).
//
// A guest is found by the UIDs of its VMI and of its launcher's pod, which have to belong together as the VMI's entity
// has said when it had the domain started. What an object in Kubernetes says is not asked: others may write that.
//
// The number of streams is bounded, and so is what each holds in memory. A stream ends when either side ends, when a
// side takes nothing for a minute, and when nothing has come for hours.
package access
