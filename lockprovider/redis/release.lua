-- Gives a lock back if it is still this owner's, and wakes whoever waits for it.
-- KEYS  lock, index
-- ARGV  owner, code of the name, PUBLISH or SPUBLISH, channel, '1': whoever owns it
-- Returns 1: given back | 0: was not this owner's
local owner = redis.call('HGET', KEYS[1], 'o')
if owner == ARGV[1] or (owner and ARGV[5] == '1') then
  redis.call('DEL', KEYS[1])
  redis.call('ZREM', KEYS[2], ARGV[2])
  redis.call(ARGV[3], ARGV[4], 'released')
  return 1
end
return 0
