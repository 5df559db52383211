// Package cdi pins the versions of which KubeVirt's Containerized Data Importer is built.
package cdi
