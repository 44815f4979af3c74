package main

import (
	"strconv"
	"strings"
	"time"

	"seckill/admission"
)

// The kinds of settings of the funnel before the gate.

// mostBurst bounds bursts, so that the longest wait for one fits into a duration.
const mostBurst = 1_000_000

// rate takes "20/s", "30/m" or "0" and keeps the time between two requests.
func rate(field func(*Config) *time.Duration) kind {
	return kind{
		word:    "rate",
		allowed: "0 for no limit, or a number of requests such as 20/s, 30/m or 100/h",
		set: func(c *Config, text string) bool {
			*field(c) = 0
			if text == "0" {
				return true
			}
			count, unit, _ := strings.Cut(text, "/")
			per, known := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
			n, err := strconv.ParseInt(count, 10, 32)
			if err != nil || n < 1 || n > mostBurst || !known {
				return false
			}
			*field(c) = per / time.Duration(n)
			return true
		},
	}
}

// leastSecret is the fewest bytes of a key that signs: fewer could be guessed.
const leastSecret = 16

func secrets(field func(*Config) *[]string) kind {
	return kind{
		word:    "list",
		allowed: "keys of 16 bytes or more, separated by commas",
		set: func(c *Config, text string) bool {
			*field(c) = list(text)
			for _, one := range *field(c) {
				if len(one) < leastSecret {
					return false
				}
			}
			return true
		},
	}
}

func activityNames() kind {
	return kind{
		word:    "list",
		allowed: "activity ids separated by commas, or * for all",
		set: func(c *Config, text string) bool {
			c.TicketActivities = list(text)
			for _, one := range c.TicketActivities {
				if one != "*" && !admission.ValidName(one) {
					return false
				}
			}
			return true
		},
	}
}
