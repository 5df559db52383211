// Package certificates keeps the API server's own certificate: made and renewed in a Secret that all replicas share, picked up without a
// restart, and its CA written into the webhook configurations so that the API server trusts it. While a CA is being replaced both are
// trusted.
package certificates
