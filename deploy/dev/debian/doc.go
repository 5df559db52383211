// Package debian installs the Debian packages that the development cluster uses from the system it runs on.
package debian
