// Package images builds the project's images, and unpacks them for tests that need their contents.
package images
