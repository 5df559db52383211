// Package launchers reaches the launchers in the pods of this node and distrusts them. A launcher is identified by
// nothing but the socket that it was reached by: found beneath the pod's own directory without following a link, and
// served by a process whose cgroup is that pod's. Whatever it then says is cut to size and cleaned before anybody else
// sees it.
package launchers
