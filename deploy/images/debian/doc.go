// Package debian takes files out of Debian packages without installing them: apt resolves and downloads (and checks
// signatures) with an empty package status of its own, dpkg-deb unpacks. The packages are of the machine's own release
// or of another one. Only the tools that a build itself runs are installed on the host.
package debian
