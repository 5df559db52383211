// Package closure finds the shared libraries that programs need, as the dynamic linker would, inside an unpacked root
// that is never entered or executed: the ELF headers are read directly.
package closure
