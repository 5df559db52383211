// Package certificates renews a server's own certificate. It is in a Secret that all replicas share, a renewed one is
// used without a restart, and its CA is written to those that must trust it: the webhook configurations, or a ConfigMap
// that clients mount. While a CA is being replaced, both are trusted. The Secret may also have random keys that all
// replicas share.
package certificates
