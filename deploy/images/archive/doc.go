// Package archive writes container images as docker-archive tars (as "docker save" does, and as "ctr images import" and
// "skopeo copy docker-archive:" read), from layers that are plain tar files. Equal input gives equal bytes.
package archive
