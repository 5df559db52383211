// Package recipes defines the content of each of virtflow's images and the source of its tag.
package recipes
