// Package migratable decides whether a guest can migrate to another node, and why not.
package migratable
