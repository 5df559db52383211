// Package validation has KubeVirt v1.9.0's rules for objects of users: each rule is one function that returns
// KubeVirt's field and text, and each kind has one table of its rules. Package support refuses what is valid but not
// supported yet.
package validation
