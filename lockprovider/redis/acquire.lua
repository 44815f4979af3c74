-- Takes a free lock, or confirms one that this attempt already took (a resent
-- script must not fail, nor count twice).
-- KEYS  lock, fence, index, abort marker of the attempt
-- ARGV  mark of the owner, TTL in ms, note, code of the name, life of the fence in ms, '1': plain counter
-- Returns token: granted | {value, ms left}: another's | {}: foreign key | nil: undone
--   before it arrived
-- A value is the owner's mark, token, since in ms and note (redis_value.go).
-- Numbers become strings here: the server would format each as a double, at a high price.
local call, format = redis.call, string.format
local held = call('GET', KEYS[1])
local mine = held and string.sub(held, 1, #ARGV[1]) == ARGV[1]
if held and not mine then
  if string.sub(held, 1, 6) ~= 'lease ' then
    return {}
  end
  return {held, call('PTTL', KEYS[1])}
end
if not held and call('EXISTS', KEYS[4]) == 1 then
  return false
end
local now = call('TIME')
local us = now[1] * 1000000 + now[2]
local ms = math.floor(us / 1000)
local ends = format('%d', ms + ARGV[2])
if mine then
  call('PEXPIRE', KEYS[1], ARGV[2])
  call('ZADD', KEYS[3], ends, ARGV[4])
  return string.match(held, '^%d+', #ARGV[1] + 1) or {}
end

-- The token rises also when the counter was lost: then it starts again at the
-- server's time in microseconds, above every number given before. Below 2^53 until
-- the year 2255, so doubles are exact. SET tells the last one, which is seldom ahead.
local token = us
if ARGV[6] == '1' then token = 1 end -- a plain counter, for the tests of this safeguard
local t = format('%d', token)
local last = call('SET', KEYS[2], t, 'PX', ARGV[5], 'GET')
if last and token <= tonumber(last) then
  t = format('%d', last + 1)
  call('SET', KEYS[2], t, 'PX', ARGV[5])
end
call('SET', KEYS[1], ARGV[1] .. t .. format(' %d ', ms) .. ARGV[3], 'PX', ARGV[2])
call('ZADD', KEYS[3], ends, ARGV[4])
if now[2] % 64 == 0 then -- now and then: what vanished holders left in the index
  call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ms - 60000)
end
return t
