// Package disk prepares the files behind a VMI's disks before its domain is built. Plan is pure and says what there has
// to be; Prepare makes it: an overlay on each read-only containerDisk, an empty image for each emptyDisk, an ISO with
// cloud-init data or with the files of a Secret, ConfigMap or the like. Doing it again finds what was made.
package disk
