// Package tree holds a file system in memory by description: paths, modes, owners, and where each file's bytes come
// from. It can be written as a tar layer, as a cpio archive (initramfs), or unpacked into a directory. The order of
// paths and the time stamps are fixed, so that equal trees give equal bytes.
package tree
