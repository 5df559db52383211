// Package archive writes container images as tars that are an OCI image layout and a docker archive in one (as "docker
// save" does, and as "ctr images import" and "skopeo copy docker-archive:" read), from layers that are plain tar files.
// Equal input gives equal bytes, and so the same digest.
package archive
