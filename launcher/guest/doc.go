// Package guest has the words in which the parts of the launcher speak of the one domain.
package guest
