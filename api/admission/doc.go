// Package admission answers the API server's webhook calls: it fills in defaults (package defaults), applies KubeVirt's
// rules (package validation), and refuses what is valid but not supported yet (package support). It records who asked
// for what in an annotation that nobody else can write.
package admission
