// Package subresourcesv1beta1 has what the subresources of virtual machine templates take and return.
package subresourcesv1beta1
