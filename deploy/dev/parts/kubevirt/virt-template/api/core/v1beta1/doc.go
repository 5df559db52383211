// Package v1beta1 has the kinds of the API of virtual machine templates.
package v1beta1
