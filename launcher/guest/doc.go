// Package guest has the types by which the launcher's packages describe the one domain.
package guest
