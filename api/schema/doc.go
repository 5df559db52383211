// Package schema checks a decoded JSON document against a Go type: no unknown fields, every required field, the right
// JSON types, and the few values that are enumerated. KubeVirt does the same before its rules look at an object, with
// the same words; the API server's own check against the CRD comes before both, and drops what it does not know.
package schema
