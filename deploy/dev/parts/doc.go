// Package parts builds the programs of the development cluster that take minutes to build, once: each part is a nested
// module (or a module's command at an exact version), and its result lies in a cache folder named by everything that
// went into it.
package parts
