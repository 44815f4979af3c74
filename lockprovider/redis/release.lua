-- Gives a lock back if it is still this owner's, and wakes whoever waits for it.
-- KEYS  lock, index
-- ARGV  mark of the owner, code of the name, PUBLISH or SPUBLISH, channel, '1': whoever owns it
-- Returns 1: given back | 0: was not this owner's
local call = redis.call
local held = call('GET', KEYS[1])
if held and (string.sub(held, 1, #ARGV[1]) == ARGV[1] or ARGV[5] == '1') then
  call('DEL', KEYS[1])
  call('ZREM', KEYS[2], ARGV[2])
  call(ARGV[3], ARGV[4], 'released')
  return 1
end
return 0
