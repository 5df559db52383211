// Package validation holds KubeVirt v1.9.0's rules for what users may write: each rule is one function that answers
// with the field and the text that KubeVirt answers with, and each kind has one table of its rules. What is valid here
// but not supported yet is the business of package support.
package validation
