// Package schema checks a decoded JSON document against a Go type: no unknown fields, every required field, the right
// JSON types, and enumerated values. KubeVirt does the same before its rules are applied, in the same words; the API
// server's own check against the CRD comes before both, and drops unknown fields.
package schema
