package agent

import "encoding/base64"

// SetAuthorizedKeys replaces a user's SSH keys with these.
func SetAuthorizedKeys(c Channel, user string, keys []string) error {
	return call(c, commandAddKeys, map[string]any{"username": user, "keys": keys, "reset": true}, lookTimeout, nil)
}

// SetPassword sets a user's password.
func SetPassword(c Channel, user, password string) error {
	return call(c, commandSetPassword, map[string]any{
		"username": user, "password": base64.StdEncoding.EncodeToString([]byte(password)), "crypted": false,
	}, lookTimeout, nil)
}
