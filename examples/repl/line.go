package main

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// token is one word of a command line.
type token struct {
	// name is set for name=value, and for --name.
	name string
	// text is the word, or what follows name=. It may be any bytes.
	text string
	// quoted says that text was written with quotes or escapes, at least in part:
	// null, a lone comma and the like then stand for themselves.
	quoted bool
	// flag says that the word was --name.
	flag bool
}

// bare reports whether the token is the plain word, unquoted.
func (t token) bare(word string) bool {
	return t.name == "" && !t.flag && !t.quoted && t.text == word
}

// splitLine splits a command line into words at spaces and tabs.
//
//	name=value     an option, if name is unquoted letters, digits, '.', '_', '-'
//	--name         a flag; --name=value is name=value
//	"a b\n"        one word; escapes and $NAME are replaced
//	'a\b $c'       one word as it stands
//	\n \t \r \0 \\ \" \' \xHH \uHHHH, and \ before any other sign: that sign
//	$NAME          a variable; a $ before anything but a letter is a $
//	# comment      to the end of the line, where a word could begin
func splitLine(line string, variable func(name string) (string, bool)) ([]token, error) {
	l := lexer{rest: line, variable: variable}
	var tokens []token
	for {
		l.rest = strings.TrimLeft(l.rest, " \t\r")
		if l.rest == "" || l.rest[0] == '#' {
			return tokens, nil
		}
		t, err := l.word()
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
	}
}

// lexer takes words off the front of a line.
type lexer struct {
	rest     string
	variable func(name string) (string, bool)
	text     []byte
	quoted   bool
}

func (l *lexer) word() (token, error) {
	t := token{}
	t.name, t.flag = l.optionName()
	l.text, l.quoted = l.text[:0], false
	for l.rest != "" && !strings.ContainsRune(" \t\r", rune(l.rest[0])) {
		if err := l.part(); err != nil {
			return token{}, err
		}
	}
	t.text, t.quoted = string(l.text), l.quoted
	return t, nil
}

// optionName takes name= or --name off the front.
func (l *lexer) optionName() (name string, flag bool) {
	word, dashes := strings.CutPrefix(l.rest, "--")
	n := 0
	for n < len(word) && inName(word[n], n) {
		n++
	}
	switch {
	case n == 0:
		return "", false
	case n < len(word) && word[n] == '=':
		l.rest = word[n+1:]
		return word[:n], false
	case dashes && (n == len(word) || strings.IndexByte(" \t\r", word[n]) >= 0):
		l.rest = word[n:]
		return word[:n], true
	default:
		return "", false
	}
}

func inName(b byte, at int) bool {
	letter := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
	return letter || at > 0 && (b >= '0' && b <= '9' || b == '.' || b == '_' || b == '-')
}

// part takes one quoted string, escape, variable or plain byte off the front.
func (l *lexer) part() error {
	switch l.rest[0] {
	case '\'':
		end := strings.IndexByte(l.rest[1:], '\'')
		if end < 0 {
			return fmt.Errorf("a ' is not closed")
		}
		l.text = append(l.text, l.rest[1:1+end]...)
		l.rest, l.quoted = l.rest[end+2:], true
		return nil
	case '"':
		l.rest, l.quoted = l.rest[1:], true
		return l.doubleQuoted()
	default:
		return l.escapedByte()
	}
}

func (l *lexer) doubleQuoted() error {
	for l.rest != "" {
		if l.rest[0] == '"' {
			l.rest = l.rest[1:]
			return nil
		}
		if err := l.escapedByte(); err != nil {
			return err
		}
	}
	return fmt.Errorf("a \" is not closed")
}

// escapedByte takes an escape, a variable or a plain byte.
func (l *lexer) escapedByte() error {
	switch {
	case l.rest[0] == '\\':
		l.rest, l.quoted = l.rest[1:], true
		return l.escape()
	case l.rest[0] == '$' && len(l.rest) > 1 && inName(l.rest[1], 0):
		return l.expand()
	default:
		l.text = append(l.text, l.rest[0])
		l.rest = l.rest[1:]
		return nil
	}
}

func (l *lexer) expand() error {
	n := 2
	for n < len(l.rest) && (inName(l.rest[n], 0) || l.rest[n] == '_' || l.rest[n] >= '0' && l.rest[n] <= '9') {
		n++
	}
	value, ok := l.variable(l.rest[1:n])
	if !ok {
		return fmt.Errorf("variable %s has no value; write \\$ for a dollar sign", l.rest[:n])
	}
	l.text = append(l.text, value...)
	l.rest = l.rest[n:]
	return nil
}

// simpleEscapes are the escapes of one letter.
var simpleEscapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '0': 0}

// escape takes what follows a backslash.
func (l *lexer) escape() error {
	if l.rest == "" {
		return fmt.Errorf("a backslash ends the line")
	}
	c := l.rest[0]
	if b, ok := simpleEscapes[c]; ok {
		l.text = append(l.text, b)
		l.rest = l.rest[1:]
		return nil
	}
	switch {
	case c == 'x':
		b, err := l.hexDigits(2)
		l.text = append(l.text, b...)
		return err
	case c == 'u':
		b, err := l.hexDigits(4)
		if err == nil {
			l.text = utf8.AppendRune(l.text, rune(b[0])<<8|rune(b[1]))
		}
		return err
	case inName(c, 0) || c >= '0' && c <= '9':
		return fmt.Errorf(`unknown escape \%c; single quotes keep backslashes`, c)
	default: // any other sign, the first byte of a longer character included
		l.text = append(l.text, c)
		l.rest = l.rest[1:]
		return nil
	}
}

// hexDigits takes the letter of an escape and the n digits after it.
func (l *lexer) hexDigits(n int) ([]byte, error) {
	digits := l.rest[1:min(1+n, len(l.rest))]
	b, err := hex.DecodeString(digits)
	if err != nil || len(digits) < n {
		return nil, fmt.Errorf(`\%c needs %d hex digits`, l.rest[0], n)
	}
	l.rest = l.rest[1+n:]
	return b, nil
}
