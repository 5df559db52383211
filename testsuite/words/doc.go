// Package words holds the project to the words of its field: a test reads every file and fails where a word that the
// field has another one for comes back.
package words
