// Package claims determines which PersistentVolumeClaims the volumes of an instance are, and what is known of them.
package claims
