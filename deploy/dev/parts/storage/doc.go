// Package storage pins what gives the development cluster its storage class: a small CSI driver, in driver/ and csi/,
// and Kubernetes's own controllers for CSI drivers, which make, grow, copy and delete volumes by asking it. Nothing
// imports this package.
package storage
