// Package libnbd replaces the module libguestfs.org/libnbd, which CDI's importer uses for one source: disks of VMware
// (VDDK). That module is an interface to C code, and the module proxies do not serve it. With this package the rest of
// the importer is built without C; an import from VMware ends with ErrLeftOut.
package libnbd
