// Package images builds the project's images, and unpacks them for tests that want what is in them.
package images
