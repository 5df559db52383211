// Package libnbd stands in for the module libguestfs.org/libnbd, which CDI's importer uses for one source: disks of
// VMware (VDDK). That module is C code's interface, and the module proxies do not serve it. With this package
// everything else of the importer is built, without C; an import from VMware ends with ErrLeftOut.
package libnbd
