// Package launchers connects to the launchers in the pods of this node and does not trust them. A launcher is
// identified by nothing but the socket that it was reached by: found beneath the pod's own directory without following
// a link, and served by a process whose cgroup is that pod's. Whatever it then sends is limited in size and sanitised
// before other code gets it.
package launchers
