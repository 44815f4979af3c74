package lockprovider

import (
	"fmt"
	"strings"
)

// encodeName writes a name so that it fits into a key: bytes other than letters,
// digits, '.', '_' and '-' become %XX. It keeps prefixes: the code of a name's prefix
// is a prefix of the name's code; and no code contains '/', '{' or '}'.
func encodeName(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r > '~' || !plain(byte(r)) }) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if plain(c) {
			b.WriteByte(c)
			continue
		}
		const hex = "0123456789ABCDEF"
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// decodeName is the inverse of encodeName.
func decodeName(code string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(code); i++ {
		if code[i] != '%' {
			b.WriteByte(code[i])
			continue
		}
		if i+2 >= len(code) {
			return "", fmt.Errorf("name code %q ends in the middle of a byte", code)
		}
		hi, lo := unhex(code[i+1]), unhex(code[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("name code %q: bad byte at %d", code, i)
		}
		b.WriteByte(byte(hi<<4 | lo))
		i += 2
	}
	return b.String(), nil
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
