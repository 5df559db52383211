package subresources

import (
	"net/http"

	"github.com/virtflow/virtflow/internal/streams/wire"
)

// Resources of the API.
const (
	virtualMachines         = "virtualmachines"
	virtualMachineInstances = "virtualmachineinstances"
	expandVMSpec            = "expand-vm-spec"
)

// Route is one path: /apis/subresources.kubevirt.io/VERSION/namespaces/NAMESPACE/Resource/NAME/Subresource.
type Route struct {
	Resource    string
	Subresource string // "" for a request about a namespace
	Method      string
	Handler     Handler
	// LeastRest and MostRest bound the number of further path segments. They are not part of the access review.
	LeastRest, MostRest int
	// Stream has no time limit, and its body is not bounded here.
	Stream bool
	// Success is the code of a successful answer: 0 means 200, or 101 for streams.
	Success int
	// Produces is the type of that answer, if it is not JSON.
	Produces string
	// Query has the parameters that the query may have.
	Query []string
}

// success returns the code of a successful answer.
func (r Route) success() int {
	switch {
	case r.Success != 0:
		return r.Success
	case r.Stream:
		return http.StatusSwitchingProtocols
	default:
		return http.StatusOK
	}
}

// path returns the route as RBAC and discovery name it.
func (r Route) path() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}

// Streams has the handlers of package streams, and of reads from a guest; nil is answered with 501.
type Streams struct {
	Console, VNC, Screenshot, USBRedir, VSOCK Handler
	PortForwardVM, PortForwardVMI             Handler
	GuestOSInfo, UserList, FilesystemList     Handler
}

// table returns all routes. RBAC's verb follows from the method: GET is get, PUT is update.
func (s *Service) table() []Route {
	const vm, vmi, get, put = virtualMachines, virtualMachineInstances, http.MethodGet, http.MethodPut
	st := s.Streams
	return []Route{
		{Resource: expandVMSpec, Method: put, Handler: s.expandGiven},

		{Resource: vm, Subresource: "start", Method: put, Success: http.StatusAccepted, Handler: s.startVM},
		{Resource: vm, Subresource: "stop", Method: put, Success: http.StatusAccepted, Handler: s.stopVM},
		{Resource: vm, Subresource: "restart", Method: put, Success: http.StatusAccepted, Handler: s.restartVM},
		{Resource: vm, Subresource: "expand-spec", Method: get, Handler: s.expandVM},
		{Resource: vm, Subresource: "migrate", Method: put, Success: http.StatusAccepted, Handler: s.migrateVM},
		{Resource: vm, Subresource: "addvolume", Method: put, Handler: s.addVolumeVM},
		{Resource: vm, Subresource: "removevolume", Method: put, Handler: s.removeVolumeVM},
		{Resource: vm, Subresource: "memorydump", Method: put, Handler: s.memoryDump},
		{Resource: vm, Subresource: "removememorydump", Method: put, Handler: s.removeMemoryDump},
		{Resource: vm, Subresource: "evacuate/cancel", Method: put, Handler: s.cancelEvacuationVM},
		{Resource: vm, Subresource: "objectgraph", Method: get, Handler: s.objectGraphVM},
		{Resource: vm, Subresource: "portforward", Method: get, LeastRest: 1, MostRest: 2, Stream: true,
			Handler: orUnsupported(st.PortForwardVM)},

		{Resource: vmi, Subresource: "pause", Method: put, Handler: s.pause},
		{Resource: vmi, Subresource: "unpause", Method: put, Handler: s.unpause},
		{Resource: vmi, Subresource: "freeze", Method: put, Handler: s.freeze},
		{Resource: vmi, Subresource: "unfreeze", Method: put, Handler: s.unfreeze},
		{Resource: vmi, Subresource: "softreboot", Method: put, Handler: s.softReboot},
		{Resource: vmi, Subresource: "reset", Method: put, Handler: s.reset},
		{Resource: vmi, Subresource: "guestosinfo", Method: get, Handler: orUnsupported(st.GuestOSInfo)},
		{Resource: vmi, Subresource: "userlist", Method: get, Handler: orUnsupported(st.UserList)},
		{Resource: vmi, Subresource: "filesystemlist", Method: get, Handler: orUnsupported(st.FilesystemList)},
		{Resource: vmi, Subresource: "console", Method: get, Stream: true, Query: []string{wire.PreserveSession},
			Handler: orUnsupported(st.Console)},
		{Resource: vmi, Subresource: "vnc", Method: get, Stream: true, Query: []string{wire.PreserveSession},
			Handler: orUnsupported(st.VNC)},
		{Resource: vmi, Subresource: "vnc/screenshot", Method: get, Produces: "image/png",
			Query: []string{wire.MoveCursor}, Handler: orUnsupported(st.Screenshot)},
		{Resource: vmi, Subresource: "usbredir", Method: get, Stream: true, Handler: orUnsupported(st.USBRedir)},
		{Resource: vmi, Subresource: "vsock", Method: get, Stream: true, Handler: orUnsupported(st.VSOCK)},
		{Resource: vmi, Subresource: "portforward", Method: get, LeastRest: 1, MostRest: 2, Stream: true,
			Handler: orUnsupported(st.PortForwardVMI)},
		{Resource: vmi, Subresource: "addvolume", Method: put, Handler: s.addVolumeVMI},
		{Resource: vmi, Subresource: "removevolume", Method: put, Handler: s.removeVolumeVMI},
		{Resource: vmi, Subresource: "evacuate/cancel", Method: put, Handler: s.cancelEvacuationVMI},
		{Resource: vmi, Subresource: "objectgraph", Method: get, Handler: s.objectGraphVMI},
		{Resource: vmi, Subresource: "sev/fetchcertchain", Method: get, Handler: s.sevRead},
		{Resource: vmi, Subresource: "sev/querylaunchmeasurement", Method: get, Handler: s.sevRead},
		{Resource: vmi, Subresource: "sev/setupsession", Method: put, Handler: s.sevSetup},
		{Resource: vmi, Subresource: "sev/injectlaunchsecret", Method: put, Handler: s.sevInject},
		{Resource: vmi, Subresource: "backup", Method: put, Handler: s.backup},
		{Resource: vmi, Subresource: "redefine-checkpoint", Method: put, Handler: s.redefineCheckpoint},
	}
}

// orUnsupported replaces a handler that this build does not have.
func orUnsupported(h Handler) Handler {
	if h != nil {
		return h
	}
	return func(http.ResponseWriter, *Request) error { return NotYet("This is not supported yet.") }
}
