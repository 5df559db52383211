// Package bom writes the components of an image as a bill of materials in CycloneDX's JSON: the modules of its Go
// programs, and the Debian packages of its files, each with its version. Equal input gives equal bytes.
package bom
