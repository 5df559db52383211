// Package layout says where the development cluster keeps its things: the
// folders of its state and of its cached builds, and its fixed addresses. It
// does nothing itself.
package layout
