// Package console follows the guest's output on its serial port, which QEMU logs to a file, and repeats it line by line
// in the launcher's own log. The guest controls this text and its amount: lines and rate are limited, control
// characters are removed, and the file is emptied before it fills the node's disk.
package console
