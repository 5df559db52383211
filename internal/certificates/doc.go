// Package certificates keeps a server's own certificate: made and renewed in a Secret that all replicas share, picked
// up without a restart, and its CA written to whoever is to trust it: the webhook configurations, or a ConfigMap that
// clients mount. While a CA is being replaced both are trusted. The Secret may also keep random keys that all replicas
// share.
package certificates
