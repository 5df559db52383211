// Package migratable says whether a guest can be moved to another node, and why not.
package migratable
