// Package statistics has KubeVirt's metrics of the guests that run on a node. Each scrape asks the launchers of all
// guests at the same time, over the connections by which they are watched, and waits a few seconds at most: the guest
// of a launcher that does not answer is missing from that scrape, which a counter shows. No other process is asked.
//
// Which guest a launcher has, the VMI's labels and the names of its devices come from Kubernetes, by the record of the
// pod and the file that the kubelet has written into it. Only numbers come from the launcher, and the names of file
// systems from its guest; both are bounded.
package statistics
