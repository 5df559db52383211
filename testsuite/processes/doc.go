// Package processes finds programs that run on this machine, in containers too, and measures what they use of it.
package processes
