// Package fakes holds in-memory stand-ins for the outside world, with its real semantics: resourceVersions that grow with each write,
// patches refused when locked by an old one, finalizers that hold a deleted object, and pods that end in two steps. Tests of workflows
// use them; nothing else does.
package fakes
