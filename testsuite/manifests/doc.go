// Package manifests tests what users apply, as it is rendered: that overlays leave no image of the development cluster,
// and that the admission policies decide as they should. It is a module of its own, since kustomize and the API
// server's CEL are not dependencies of the product.
package manifests
