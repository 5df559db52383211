// Package apitest is a small API server in memory for tests: objects of any resource with create, get, list, merge patch, strategic
// merge patch and delete, with UIDs, resourceVersions, finalizers, preconditions and the status subresource of VirtualMachines, as the
// real one has them. It counts requests and can be told to fail them.
package apitest
