// Package layout defines the paths of the development cluster: the folders of its state and of its cached builds, and
// its fixed addresses. It does nothing itself.
package layout
