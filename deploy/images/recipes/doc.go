// Package recipes says what goes into each of virtflow's images and where its tag comes from.
package recipes
