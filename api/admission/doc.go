// Package admission answers the API server's webhook calls: it fills in defaults (package defaults), applies KubeVirt's
// rules (package validation), and refuses what is valid but not supported yet (package support). It records the user of
// each request in an annotation that users cannot write.
package admission
