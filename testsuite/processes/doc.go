// Package processes finds programs that run on this machine, in containers too, and measures their resource usage.
package processes
